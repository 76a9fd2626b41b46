/** A node in which nothing was begun yet: what should move, how, and with what. */
import { type KeyboardEvent, useId, useRef, useSyncExternalStore } from 'react';
import { useFirstWrong } from './answered';
import { useAround } from './context';
import type { Given } from './context';
import { newKey, Problem } from './http';
import type { Refusal } from './fields';
import { Button, Said, useAnswered } from './parts';
import type { PluginSetting } from './plugin';
import { type AnimationData, askedFor, filesOf, requestOf } from './request';

interface Props {
  id: string;
  data: AnimationData;
  change: (what: Partial<AnimationData>) => void;
  given: readonly Given[];
  settings: readonly PluginSetting[];
}

export function Idle({ id, data, change, given, settings }: Props) {
  const { koda, makings, registry } = useAround();
  const { busy, problem } = useSyncExternalStore(makings.watch, () => makings.of(id));
  const form = useRef<HTMLFormElement>(null);
  useFirstWrong(form, problem);
  const typed = useAnswered({ problem, name: 'prompt', value: data.prompt ?? '' });
  const body = requestOf(data, given);
  const files = filesOf(given);
  const wordsCome = given.some(({ handle }) => handle === 'prompt');
  const styled = given.find(({ handle }) => handle === 'style');
  const make = async () => {
    const asked = askedFor(body, files);
    try {
      let { sent } = data;
      if (sent?.asked !== asked) {
        const assetIds = [];
        for (const { source, sourceHandle } of files) assetIds.push(await assetOf(source, sourceHandle));
        sent = { asked, key: newKey(), body: assetIds.length > 0 ? { ...body, assetIds } : body };
        change({ sent });
      }
      const sessionId = await koda.create(sent.body, sent.key);
      change({ sessionId, sent: undefined });
      return undefined;
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (error.status >= 400 && error.status < 500) change({ sent: undefined });
      return error;
    }
  };
  const begin = () => body.prompt && void makings.begin(id, make);
  const assetOf = async (source: string, handle: string) => {
    const from = given.find((each) => each.source === source && each.sourceHandle === handle);
    const entry = from?.plugin === undefined ? undefined : registry.get(from.plugin);
    if (!entry?.file || !from?.data) throw new Problem(0, 'NO_FILE', `There is no file behind ${from?.name ?? source}.`);
    return (await entry.stored?.(handle, from.data, koda)) ?? koda.upload(await entry.file(handle, from.data, koda));
  };
  const keys = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) begin();
  };
  return (
    <form
      ref={form}
      noValidate
      className="koda-screen"
      onSubmit={(event) => {
        event.preventDefault();
        begin();
      }}
    >
      {wordsCome ? (
        <p className="koda-quote">{body.prompt || 'Waiting for words: write them where they come from.'}</p>
      ) : (
        <>
          <textarea
            aria-label="What should move"
            placeholder="A red ball bounces through the rain and comes to rest…"
            rows={3}
            value={data.prompt ?? ''}
            onChange={({ target }) => change({ prompt: target.value })}
            onKeyDown={keys}
            {...typed.marks}
          />
          {typed.words}
        </>
      )}
      {styled && <p className="koda-fact">Style: {body.style ?? 'not said yet'}</p>}
      {files.length > 0 && (
        <ul className="koda-files" aria-label="What goes along">
          {files.map(({ source, sourceHandle, name, value }) => (
            <li key={`${source} ${sourceHandle}`}>{value && value.type !== 'text' && <File name={value.name || name} picture={pictureOf(value)} isVideo={value.type === 'video'} />}</li>
          ))}
        </ul>
      )}
      <details className="koda-more">
        <summary>{chosen(settings, data.settings) || 'Length, shape, size'}</summary>
        <div className="koda-settings">
          {settings.map((each) => (
            <Setting key={each.id} problem={problem} setting={each} value={data.settings?.[each.id]} set={(value) => change({ settings: without(data.settings, each.id, value) })} />
          ))}
        </div>
      </details>
      <Said problem={problem} except={[...settings.map((each) => each.id), ...(wordsCome ? [] : ['prompt'])]} />
      <Button kind="main" type="submit" disabled={busy || !body.prompt} title="Ctrl+Enter">
        {busy ? 'Beginning…' : 'Make it'}
      </Button>
    </form>
  );
}

function pictureOf(value: { type: string; url: string; poster?: string }): string | undefined {
  return value.type === 'image' ? value.url : value.poster;
}

function File({ name, picture, isVideo }: { name: string; picture: string | undefined; isVideo: boolean }) {
  return (
    <>
      {picture && <img src={picture} alt="" />}
      <span>
        {name}
        {isVideo && <small>The film itself goes along</small>}
      </span>
    </>
  );
}

function without(settings: Record<string, string | number> | undefined, id: string, value: string | number | undefined): Record<string, string | number> {
  const { [id]: _, ...rest } = settings ?? {};
  return value === undefined ? rest : { ...rest, [id]: value };
}

/** What was chosen, in a line. */
function chosen(settings: readonly PluginSetting[], values: Record<string, string | number> = {}): string {
  return settings.flatMap(({ id, unit }) => (values[id] === undefined ? [] : [`${values[id]}${unit ? ` ${unit}` : ''}`])).join(' · ');
}

interface SettingProps {
  problem: Refusal;
  setting: PluginSetting;
  value: string | number | undefined;
  set: (value: string | number | undefined) => void;
}

function Setting({ problem, setting, value, set }: SettingProps) {
  const { marks, words } = useAnswered({ problem, name: setting.id, value });
  const { name, type, unit, options = [], minimum, maximum, default: usual } = setting;
  const id = useId();
  return (
    <div>
      <label htmlFor={id}>{unit ? `${name}, ${unit}` : name}</label>
      {type === 'choice' ? (
        <select id={id} value={String(value ?? '')} onChange={({ target }) => set(options.find((each) => String(each) === target.value))} {...marks}>
          <option value="">{usual === undefined || usual === null ? 'Any' : `${usual}, as usual`}</option>
          {options.map((each) => (
            <option key={each} value={String(each)}>
              {each}
            </option>
          ))}
        </select>
      ) : (
        <input
          id={id}
          type="number"
          min={minimum ?? undefined}
          max={maximum ?? undefined}
          step="any"
          placeholder="Any"
          value={value ?? ''}
          onChange={({ target }) => set(target.value === '' ? undefined : target.valueAsNumber)}
          {...marks}
        />
      )}
      {words}
    </div>
  );
}
