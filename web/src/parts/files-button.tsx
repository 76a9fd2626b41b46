import { FolderTree } from 'lucide-react';
import { Button } from './button';

/** Leads to a project's files. */
export function FilesButton({ name = 'Files', look }: { name?: string; look: () => void }) {
  return (
    <Button kind="quiet" aria-haspopup="dialog" title="The project's files, to be read" onClick={look}>
      <FolderTree aria-hidden className="size-4" /> {name}
    </Button>
  );
}
