import { FolderDown } from 'lucide-react';
import type { SessionView, VersionView } from '../api/client';
import { type FileView, fileAddress, firstOf, useFiles } from '../api/files';
import { bytes } from '../api/words';
import { AskAgain } from './ask-again';
import { Dialog } from './dialog';
import { Tree } from './tree';
import { Source } from './written-file';

const NONE: readonly FileView[] = [];

interface Props {
  session: SessionView;
  /** Whose files they are; undefined: what there is now. */
  version: VersionView | undefined;
  /** The file that is read; '' where none was chosen. */
  path: string;
  read: (path: string) => void;
  close: () => void;
}

/** All files of a project, of now or of a version: a tree of them, and beside it what is in one. */
export function Files({ session, version, path, read, close }: Props) {
  const found = useFiles(session.id, version?.checkpointId ?? undefined, Boolean(session.state.owes));
  const files = found.data?.files ?? NONE;
  const checkpoint = found.data?.checkpointId;
  const name = path || firstOf(files, session.state.execution?.files ?? []);
  const shown = files.find((each) => each.path === name);
  return (
    <Dialog title={version ? `Files of version ${version.number}` : 'Files'} className="max-w-6xl open:flex open:h-[56rem] open:flex-col" close={close}>
      {version?.checkpointId === null ? (
        <p className="mt-4 text-muted">The files of this version are not kept.</p>
      ) : !found.data ? (
        <div className="mt-4">
          <AskAgain what="The files" found={found} />
          {!found.error && <p className="text-muted">One moment…</p>}
        </div>
      ) : files.length === 0 ? (
        <p className="mt-4 text-muted">Nothing was saved yet.</p>
      ) : (
        <div className="mt-3 grid min-h-0 flex-1 gap-x-6 gap-y-3 text-sm max-md:grid-rows-[minmax(0,2fr)_minmax(0,3fr)] md:grid-cols-[minmax(13rem,1fr)_minmax(0,3fr)]">
          <div className="flex min-h-0 min-w-0 flex-col gap-2">
            <Tree key={version?.id} files={files} shown={name ?? ''} read={read} />
            <a
              href={`/v1/sessions/${session.id}/source.zip${checkpoint ? `?checkpoint=${checkpoint}` : ''}`}
              download
              className="inline-flex min-h-8 w-fit items-center gap-2 text-muted underline-offset-4 hover:text-text hover:underline"
            >
              <FolderDown aria-hidden className="size-4" /> All of it as a zip
            </a>
          </div>
          <div className="flex min-h-0 min-w-0 flex-col items-start gap-2">
            <h3 className="max-w-full font-medium wrap-anywhere" aria-live="polite">
              {name}
              {shown && <span className="ml-2 font-normal text-muted tabular-nums">{bytes(shown.sizeBytes)}</span>}
            </h3>
            {shown ? (
              <Source key={shown.path} address={fileAddress(session.id, shown.path, checkpoint)} path={shown.path} hash={shown.sha256} className="min-h-0 w-full flex-1" />
            ) : (
              <p className="text-muted">There is no such file here.</p>
            )}
          </div>
        </div>
      )}
    </Dialog>
  );
}
