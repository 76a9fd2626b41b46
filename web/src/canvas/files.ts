/** Files on their way into the nodes of a canvas, whether or not it is shown. */
import type { Upload, Uploads } from '../api/uploads';
import type { Board } from './board';
import type { AssetData } from './layout';

export class Files {
  private readonly at: string;

  constructor(
    private readonly board: Board,
    private readonly uploads: Uploads,
  ) {
    this.at = `/c/${board.id}`;
    board.watch(() => this.follow());
  }

  /** What is on its way into a node, or was refused; the same object until something changes. */
  of(nodeId: string): Upload | undefined {
    return this.uploads.list.find(({ at, into }) => at === this.at && into === nodeId);
  }

  /** Store a file for a node, in place of what it has. */
  put(nodeId: string, file: File): void {
    this.drop(nodeId);
    this.uploads.add([file], { at: this.at, into: nodeId }, ({ id, name, mediaType }) => {
      this.board.change(nodeId, { asset: { id, name, mediaType } } satisfies Partial<AssetData>);
      this.board.keep(); // it may not be shown, and then nobody keeps it when the page is closed
    });
  }

  again(nodeId: string): void {
    const there = this.of(nodeId);
    if (there) this.uploads.again(there.key);
  }

  /** Stop what is on its way into a node, or forget it. */
  drop(nodeId: string): void {
    const there = this.of(nodeId);
    if (there) this.uploads.drop(there.key);
  }

  /** Stop all of them. */
  close(): void {
    for (const { key, at } of this.uploads.list) if (at === this.at) this.uploads.drop(key);
  }

  /** What goes into a node that was removed rests, and goes on where that was undone; where that cannot be, it is let go. */
  private follow(): void {
    for (const { key, at, into, state } of this.uploads.list) {
      if (at !== this.at) continue;
      const isThere = this.board.seen.nodes.some(({ id }) => id === into);
      if (!isThere && !this.board.remembers(into)) this.uploads.drop(key);
      else if (!isThere) this.uploads.rest(key);
      else if (state === 'rests') this.uploads.again(key);
    }
  }
}
