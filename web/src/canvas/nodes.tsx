/** What a canvas has beside animations: words, a style, and files. */
import { FileUp, Music, RotateCcw, X } from 'lucide-react';
import { type ComponentType, useId, useRef, useState, useSyncExternalStore } from 'react';
import type { Schemas } from '../api/client';
import { refusalOf, uploads } from '../api/uploads';
import { animationGenerator } from '../../node/src/official';
import { type Entry, type NodeData, type NodeParts, Registry } from '../../node/src/registry';
import type { PluginBase } from '../../node/src/plugin';
import { ProgressBar } from '../../node/src/progress-bar';
import { Sockets } from '../../node/src/sockets';
import type { Value } from '../../node/src/values';
import { useCanvas } from './desk';
import type { AssetData } from './layout';

/** The inside of a node, on a canvas and in a list. */
interface BodyParts {
  id: string;
}

/** What a node holds, at the very moment it is typed: what comes through the canvas comes after the caret has moved. */
function useHeld(id: string) {
  const { board } = useCanvas();
  return useSyncExternalStore(board.watch, () => board.seen.nodes.find((each) => each.id === id)?.data);
}

export const FILM = animationGenerator.plugin.id;
const STYLES: [id: string, name: string, about: string][] = [
  ['playful', 'Playful', 'Bright, quick and springy'],
  ['smooth', 'Smooth', 'Slow in, slow out, plenty of space'],
  ['cinematic', 'Cinematic', 'Dark and deep, with a slow camera'],
];

function PromptBody({ id }: BodyParts) {
  const { board } = useCanvas();
  const data = useHeld(id);
  return (
    <textarea
      aria-label="What should move"
      placeholder="A red ball bounces through the rain and comes to rest…"
      rows={4}
      className="canvas-words"
      value={textOf(data)}
      onChange={({ target }) => board.change(id, { text: target.value })}
    />
  );
}

function StyleBody({ id }: BodyParts) {
  const { board } = useCanvas();
  const data = useHeld(id);
  const name = useId();
  const chosen = textOf(data);
  const isOwn = chosen !== '' && !STYLES.some(([style]) => style === chosen);
  const set = (text: string) => board.change(id, { text });
  return (
    <>
      <fieldset>
        <legend className="koda-hidden">Style</legend>
        {STYLES.map(([style, words, about]) => (
          <label key={style} className="koda-option">
            <input type="radio" name={name} checked={chosen === style} onChange={() => set(style)} />
            <span>
              {words}
              <small>{about}</small>
            </span>
          </label>
        ))}
      </fieldset>
      <input aria-label="Or in your own words" placeholder="Or in your own words" maxLength={200} value={isOwn ? chosen : ''} onChange={({ target }) => set(target.value)} />
    </>
  );
}

function AssetBody({ id }: BodyParts) {
  const { files } = useCanvas();
  const data = useHeld(id);
  const going = useSyncExternalStore(uploads.watch, () => files.of(id));
  const input = useRef<HTMLInputElement>(null);
  const asset = (data as AssetData | undefined)?.asset;
  return (
    <>
      {asset && !going && <Shown key={asset.id} asset={asset} />}
      {going && (
        <div className="koda-line">
          <p className="koda-thought" role={going.state === 'refused' ? 'alert' : undefined}>
            {going.said ? refusalOf(going) : going.name}
          </p>
          {going.state === 'refused' && !going.isFinal && (
            <button type="button" className="koda-tool" aria-label={`Send ${going.name} again`} title="Again" onClick={() => files.again(id)}>
              <RotateCcw aria-hidden className="koda-icon" />
            </button>
          )}
          <button type="button" className="koda-tool" aria-label={going.state === 'refused' ? `Forget ${going.name}` : `Stop ${going.name}`} title="Leave it" onClick={() => files.drop(id)}>
            <X aria-hidden className="koda-icon" />
          </button>
        </div>
      )}
      {going && going.state !== 'refused' && <ProgressBar label={`Sending ${going.name}`} percent={100 * going.sent} />}
      {!going && (
        <>
          <button type="button" className={`koda-button koda-plain ${asset ? '' : 'canvas-drop'}`} onClick={() => input.current?.click()}>
            {!asset && <FileUp aria-hidden className="koda-icon" />}
            {asset ? 'Another file' : 'Choose, drop or paste a picture, a film or a sound'}
          </button>
          <input
            ref={input}
            type="file"
            hidden
            accept="image/*,video/mp4,video/webm,audio/*"
            onChange={({ target }) => {
              const [file] = target.files ?? [];
              if (file) files.put(id, file);
              target.value = '';
            }}
          />
        </>
      )}
    </>
  );
}

function Shown({ asset: { id, name, mediaType } }: { asset: NonNullable<AssetData['asset']> }) {
  const [isGone, setGone] = useState(false);
  const url = fileOf(id);
  if (isGone) return <p className="koda-fact">{name} is not there any more. Choose it again, or another one.</p>;
  return (
    <figure className="canvas-file">
      {kindOf(mediaType) === 'audio' ? (
        <>
          <Music aria-hidden className="koda-icon" />
          <audio controls preload="none" src={url} aria-label={name} onError={() => setGone(true)} />
        </>
      ) : kindOf(mediaType) === 'video' ? (
        <video controls muted playsInline preload="metadata" src={url} aria-label={name} onError={() => setGone(true)} />
      ) : (
        <img src={url} alt="" onError={() => setGone(true)} />
      )}
      <figcaption>{name}</figcaption>
    </figure>
  );
}

function kindOf(mediaType: string): 'image' | 'video' | 'audio' {
  const [kind] = mediaType.split('/');
  return kind === 'video' || kind === 'audio' ? kind : 'image';
}

function fileOf(assetId: string): string {
  return `/v1/assets/${assetId}/file`;
}

function textOf(data: NodeData | undefined): string {
  return typeof data?.text === 'string' ? data.text : '';
}

/** A node of this page, on a canvas. */
function framed({ name, handles, id: plugin }: PluginBase): ComponentType<NodeParts> {
  return function Framed({ id, selected }) {
    const { names } = useCanvas();
    const Body = BODIES.get(plugin);
    return (
      <article className="koda-node" data-selected={selected || undefined} aria-label={names.get(id) ?? name}>
        <header>
          <span className="koda-title">{name}</span>
        </header>
        {handles && <Sockets handles={handles} />}
        <div className="koda-body koda-screen nodrag nopan nowheel nokey">{Body && <Body id={id} />}</div>
      </article>
    );
  };
}

const PROMPT: PluginBase = {
  id: 'prompt',
  name: 'Prompt',
  description: 'Words that say what should move',
  icon: '💬',
  handles: { inputs: [], outputs: [{ id: 'text', name: 'Words', type: 'text' }] },
};
const STYLE: PluginBase = {
  id: 'style',
  name: 'Style',
  description: 'How it should look and move',
  icon: '🎨',
  handles: { inputs: [], outputs: [{ id: 'style', name: 'Style', type: 'text' }] },
};
const ASSET: PluginBase = {
  id: 'asset',
  name: 'File',
  description: 'A picture, a film or a sound to make it with',
  icon: '🖼️',
  handles: { inputs: [], outputs: [{ id: 'file', name: 'File', type: 'media' }] },
};

/** The insides of the nodes that are this page's own. */
export const BODIES: ReadonlyMap<string, ComponentType<BodyParts>> = new Map([
  ['prompt', PromptBody],
  ['style', StyleBody],
  ['asset', AssetBody],
]);

const words: Entry['output'] = (_handle, data) => ({ type: 'text', text: textOf(data) });

/** The nodes of this page. */
export const known = new Registry();
known.register(animationGenerator);
known.register({ plugin: PROMPT, component: framed(PROMPT), output: words });
known.register({ plugin: STYLE, component: framed(STYLE), output: words });
known.register({
  plugin: ASSET,
  component: framed(ASSET),
  output: (_handle, data): Value | undefined => {
    const { asset } = data as AssetData;
    return asset && { type: kindOf(asset.mediaType), name: asset.name, url: fileOf(asset.id) };
  },
  stored: async (_handle, data, koda) => {
    const { asset } = data as AssetData;
    if (!asset) return undefined;
    const { sessionId } = await koda.ask<Schemas['AssetView']>(`/v1/assets/${asset.id}`);
    return sessionId ? undefined : asset.id;
  },
  file: async (_handle, data, koda) => {
    const { asset } = data as AssetData;
    if (!asset) throw new Error('there is no file in this node');
    return new File([await koda.ask<Blob>(`${fileOf(asset.id)}?here=true`, { as: 'blob' })], asset.name, { type: asset.mediaType });
  },
});

const SIZES = new Map([
  ['prompt', { width: 300, height: 210 }],
  ['style', { width: 300, height: 360 }],
  ['asset', { width: 300, height: 200 }],
  ['animation-generator', { width: 420, height: 360 }],
]);

/** How wide a node is at first, and about how high, in pixels of the canvas. */
export function sizeOf(plugin: string): { width: number; height: number } {
  return SIZES.get(plugin) ?? { width: 320, height: 240 };
}
