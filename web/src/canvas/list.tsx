/** A canvas where there is no room for a plane: its nodes one below the other, in the order of their edges. */
import { Cable, ExternalLink, FileQuestion, ListVideo, Trash2 } from 'lucide-react';
import { Link } from 'wouter';
import { AnimationScreen, PhaseLine, useWhere } from '../../node/src/animation';
import { useGiven } from '../../node/src/context';
import type { AnimationData } from '../../node/src/request';
import type { BoardNode } from './board';
import { useBoard, useCanvas } from './desk';
import { ordered } from './layout';
import { BODIES, FILM, known } from './nodes';
import { Toolbar } from './toolbar';

interface Props {
  add: (plugin: string) => void;
  pick: () => void;
  undo: (() => void) | undefined;
  redo: (() => void) | undefined;
}

export function List({ add, pick, undo, redo }: Props) {
  const { board } = useCanvas();
  const { nodes, edges } = useBoard(board);
  return (
    <>
      <ol aria-label="Nodes of the canvas" className="canvas-list">
        {ordered(nodes, edges).map((each) => (
          <Card key={each.id} node={each} />
        ))}
      </ol>
      <Toolbar add={add} pick={pick} undo={undo} redo={redo} />
    </>
  );
}

function Card({ node: { id, data } }: { node: BoardNode }) {
  const { names, connect, remove, goOn } = useCanvas();
  const name = names.get(id) ?? '';
  const Body = BODIES.get(data.plugin);
  const isAnimation = data.plugin === FILM;
  return (
    <li data-node={id} tabIndex={-1} className="koda-node" aria-label={name}>
      {isAnimation ? (
        <Animation id={id} data={data as AnimationData} />
      ) : (
        <>
          <header>
            <h2 className="koda-title">{known.get(data.plugin)?.plugin.name ?? name}</h2>
          </header>
          <div className="koda-body koda-screen">
            {Body ? (
              <Body id={id} />
            ) : (
              <p className="koda-fact">
                <FileQuestion aria-hidden className="koda-icon" /> This page knows no such node. It is kept as it is.
              </p>
            )}
          </div>
        </>
      )}
      <footer>
        <button type="button" className="koda-button koda-quiet" aria-label={`Connect to…: ${name}`} onClick={() => connect(id)}>
          <Cable aria-hidden className="koda-icon" /> Connect to…
        </button>
        {isAnimation && (
          <button type="button" className="koda-button koda-quiet" aria-label={`Go on with it: ${name}`} onClick={() => goOn(id)}>
            <ListVideo aria-hidden className="koda-icon" /> Go on with it
          </button>
        )}
        <button type="button" className="koda-tool" aria-label={`Remove ${name}`} title="Remove" onClick={() => remove([id])}>
          <Trash2 aria-hidden className="koda-icon" />
        </button>
      </footer>
    </li>
  );
}

function Animation({ id, data }: { id: string; data: AnimationData }) {
  const { board, names } = useCanvas();
  const { nodes, edges } = useBoard(board);
  const given = useGiven(id, edges, nodes);
  const where = useWhere(data.sessionId);
  const comes = [...new Set(given.map(({ source }) => names.get(source)))];
  return (
    <>
      <header>
        <h2 className="koda-title">{where.title}</h2>
        <PhaseLine {...where} />
        {data.sessionId !== undefined && (
          <Link className="koda-tool" href={`/s/${data.sessionId}`} aria-label={`Open ${where.title} in the studio`}>
            <ExternalLink aria-hidden className="koda-icon" />
          </Link>
        )}
      </header>
      <div className="koda-body">
        <AnimationScreen id={id} data={data} change={(what) => board.change(id, what)} given={given} />
        {comes.length > 0 && <p className="canvas-comes">Made with {comes.join(' · ')}</p>}
      </div>
    </>
  );
}
