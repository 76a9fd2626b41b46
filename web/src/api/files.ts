/** A project's files as its checkpoints hold them: as a tree, and which of them is read, which stands in the address. */
import { useQuery } from '@tanstack/react-query';
import { ask, type Problem, type Schemas, type SessionView } from './client';
import { useParams } from './params';

export type FileView = Schemas['FileView'];
type FileList = Schemas['FileList'];

/** While something is written, what was saved of it by now is looked for so often. */
const AGAIN_MS = 4_000;
const WRITTEN = 'src/';
const MAIN = ['src/App.tsx', 'src/main.tsx', 'index.html'];

/** A file of a project, by its path. */
export interface Named {
  path: string;
}

/** A line of the tree: a folder, or a file; `at` of `of` are beside it in its folder, at a level from 1. */
export interface Row {
  path: string;
  name: string;
  level: number;
  at: number;
  of: number;
  isFolder: boolean;
}

/** The lines that are seen while some folders are open: of each folder its folders first, then its files, by name. */
export function rowsOf(files: readonly Named[], open: ReadonlySet<string>, folder = '', level = 1): Row[] {
  const names = new Map<string, boolean>(); // whether it is a folder
  for (const { path } of files) {
    if (!path.startsWith(folder)) continue;
    const [name = '', ...below] = path.slice(folder.length).split('/');
    names.set(name, below.length > 0);
  }
  const sorted = [...names].sort(([one, isFolder], [other, isOther]) => Number(isOther) - Number(isFolder) || one.localeCompare(other, 'en'));
  return sorted.flatMap(([name, isFolder], at) => {
    const path = folder + name;
    const row = { path, name, level, at: at + 1, of: sorted.length, isFolder };
    return isFolder && open.has(path) ? [row, ...rowsOf(files, open, `${path}/`, level + 1)] : [row];
  });
}

/** The folders that a path is in, outermost first. */
export function foldersAbove(path: string): string[] {
  const names = path.split('/').slice(0, -1);
  return names.map((_, at) => names.slice(0, at + 1).join('/'));
}

/** What a key does in the tree: the line that it leads to, or that it opens or closes; nothing where it is none of the tree's. */
export function pressed(rows: readonly Row[], now: string, open: ReadonlySet<string>, key: string): { to?: string; turns?: string } | undefined {
  const at = Math.max(0, rows.findIndex(({ path }) => path === now));
  const row = rows[at];
  if (!row) return undefined;
  const to = (found: Row | undefined) => (found ? { to: found.path } : {});
  if (key === 'ArrowDown') return to(rows[at + 1]);
  if (key === 'ArrowUp') return to(rows[at - 1]);
  if (key === 'Home') return to(rows[0]);
  if (key === 'End') return to(rows.at(-1));
  const isOpen = row.isFolder && open.has(row.path);
  if (key === 'ArrowRight') return !row.isFolder ? {} : isOpen ? to(rows[at + 1]) : { turns: row.path };
  if (key === 'ArrowLeft') return isOpen ? { turns: row.path } : to(rows.slice(0, at).findLast(({ level }) => level < row.level));
  if (key.length !== 1 || key === ' ') return undefined;
  const begins = ({ name }: Row) => name.toLowerCase().startsWith(key.toLowerCase());
  return to([...rows.slice(at + 1), ...rows.slice(0, at)].find(begins));
}

/** The file that is read first: one that the agents wrote, or else where the page begins. */
export function firstOf(files: readonly Named[], written: readonly string[]): string | undefined {
  const there = new Set(files.map(({ path }) => path));
  const source = written.find((path) => path.startsWith(WRITTEN) && there.has(path));
  return source ?? MAIN.find((path) => there.has(path)) ?? files[0]?.path;
}

/** Whether a session has files by now. */
export function hasFiles({ execution, preview, finished, output }: SessionView['state']): boolean {
  return Boolean(execution?.files.length || preview || finished || output);
}

/** Where a file is read. */
export function fileAddress(sessionId: string, path: string, checkpoint?: string | null): string {
  const named = path.split('/').map(encodeURIComponent).join('/');
  return `/v1/sessions/${sessionId}/files/${named}${checkpoint ? `?checkpoint=${checkpoint}` : ''}`;
}

/** All files of a checkpoint, or else of the newest one. */
export function useFiles(sessionId: string, checkpoint: string | undefined, isWritten: boolean) {
  return useQuery<FileList, Problem>({
    queryKey: ['files', sessionId, checkpoint ?? 'newest'],
    queryFn: ({ signal }) => ask(`/v1/sessions/${sessionId}/files${checkpoint ? `?checkpoint=${checkpoint}` : ''}`, { signal }),
    staleTime: checkpoint ? Infinity : 0,
    refetchInterval: !checkpoint && isWritten ? AGAIN_MS : false,
  });
}

/** Which file the address names: none while nothing is looked at, and '' where it says none in particular. */
export function useFile() {
  const [params, put] = useParams();
  return {
    path: params.get('files') ?? undefined,
    read: (path: string) => put({ files: path }),
    /** Look at the files of what the session has now. */
    readNewest: () => put({ files: '', v: undefined }),
    close: () => put({ files: undefined }),
  };
}
