/** What is done to a canvas as a whole: put something on it, undo, and see more or less of it. */
import { Clapperboard, FileUp, GalleryVerticalEnd, type LucideIcon, Palette, Redo2, Type, Undo2 } from 'lucide-react';
import type { ReactNode } from 'react';

const KINDS: [plugin: string, words: string, Icon: LucideIcon][] = [
  ['prompt', 'Prompt', Type],
  ['style', 'Style', Palette],
  ['asset', 'File', FileUp],
  ['animation-generator', 'Animation', Clapperboard],
];

interface Props {
  add: (plugin: string) => void;
  /** Add an animation that is there already. */
  pick: () => void;
  undo: (() => void) | undefined;
  redo: (() => void) | undefined;
  children?: ReactNode;
}

export function Toolbar({ add, pick, undo, redo, children }: Props) {
  return (
    <div role="group" aria-label="What is done to the canvas" className="canvas-toolbar">
      {KINDS.map(([plugin, words, Icon]) => (
        <button key={plugin} type="button" className="canvas-tool" aria-label={`Add: ${words}`} title={`Add: ${words}`} onClick={() => add(plugin)}>
          <Icon aria-hidden />
          <span>{words}</span>
        </button>
      ))}
      <button type="button" className="canvas-tool" aria-haspopup="dialog" aria-label="Add: One of yours" title="Add: One of your animations, as it is" onClick={pick}>
        <GalleryVerticalEnd aria-hidden />
        <span>Yours</span>
      </button>
      <span role="separator" aria-orientation="vertical" className="canvas-line" />
      <Tool name="Undo" keys="Ctrl Z" Icon={Undo2} act={undo} />
      <Tool name="Redo" keys="Ctrl Shift Z" Icon={Redo2} act={redo} />
      {children}
    </div>
  );
}

export function Tool({ name, keys, Icon, act }: { name: string; keys?: string; Icon: LucideIcon; act: (() => void) | undefined }) {
  return (
    <button type="button" className="canvas-tool" aria-label={name} title={keys ? `${name} (${keys})` : name} aria-disabled={!act} onClick={act}>
      <Icon aria-hidden />
    </button>
  );
}
