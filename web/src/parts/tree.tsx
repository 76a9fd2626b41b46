import { ChevronRight, File as FileSign } from 'lucide-react';
import { type KeyboardEvent, useEffect, useRef, useState } from 'react';
import { foldersAbove, type Named, pressed, type Row, rowsOf } from '../api/files';

/** The project's tree: one step of the Tab key, and arrows in it. */
export function Tree({ files, shown, read }: { files: readonly Named[]; shown: string; read: (path: string) => void }) {
  const [open, setOpen] = useState<ReadonlySet<string>>(() => new Set(['src', ...foldersAbove(shown)]));
  const rows = rowsOf(files, open);
  const [at, setAt] = useState(shown);
  const now = rows.some(({ path }) => path === at) ? at : (rows[0]?.path ?? '');
  const list = useRef<HTMLUListElement>(null);
  const moved = useRef(false);
  useEffect(() => {
    const item = list.current?.querySelector<HTMLElement>('[tabindex="0"]');
    if (moved.current) item?.focus();
    else item?.scrollIntoView({ block: 'nearest' });
    moved.current = false;
  }, [now]);
  const turn = (path: string) => setOpen((before) => new Set(before.has(path) ? [...before].filter((each) => each !== path) : [...before, path]));
  const choose = ({ path, isFolder }: Row) => {
    setAt(path);
    if (isFolder) turn(path);
    else read(path);
  };
  const keys = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const row = rows.find(({ path }) => path === now);
    if (event.key === 'Enter' || event.key === ' ') {
      if (row) choose(row);
    } else {
      const does = pressed(rows, now, open, event.key);
      if (!does) return;
      if (does.turns !== undefined) turn(does.turns);
      if (does.to !== undefined) {
        moved.current = true;
        setAt(does.to);
      }
    }
    event.preventDefault();
  };
  return (
    <ul ref={list} role="tree" aria-label="The project" className="-m-1 min-h-0 flex-1 overflow-auto p-1" onKeyDown={keys}>
      {rows.map((row) => (
        <li
          key={row.path}
          role="treeitem"
          aria-level={row.level}
          aria-posinset={row.at}
          aria-setsize={row.of}
          aria-expanded={row.isFolder ? open.has(row.path) : undefined}
          aria-selected={row.path === shown}
          tabIndex={row.path === now ? 0 : -1}
          title={row.path}
          className="flex min-h-7 cursor-pointer items-center gap-1.5 rounded-lg pr-2 hover:bg-sunken aria-selected:bg-accent-ground aria-selected:text-accent"
          style={{ paddingLeft: `${row.level - 0.5}rem` }}
          onClick={() => choose(row)}
        >
          {row.isFolder ? (
            <ChevronRight aria-hidden className={`size-4 shrink-0 text-muted ${open.has(row.path) ? 'rotate-90' : ''}`} />
          ) : (
            <FileSign aria-hidden className="size-4 shrink-0 text-muted" />
          )}
          <span className="min-w-0 truncate">{row.name}</span>
        </li>
      ))}
    </ul>
  );
}
