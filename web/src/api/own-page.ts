/** A page of one's own to be rendered: what was chosen, as the server takes it. */
import { Problem } from './client';
import { numberOf } from './typed';

/** What may be asked for, as it is typed; empty is the page's own, or the preset's. */
export interface Wanted {
  preset: string;
  format: string;
  width: string;
  height: string;
  fps: string;
  duration: string;
  /** What else a request may have, as JSON. */
  other: string;
}

export const NOTHING_WANTED: Wanted = { preset: '', format: '', width: '', height: '', fps: '', duration: '', other: '' };
export const PRESETS = ['720p', '1080p', '4k', 'preview', 'final', 'youtube', 'youtube-shorts', 'instagram-reels', 'tiktok', 'twitter', 'x'];
export const PAGE_FORMATS = ['mp4', 'webm', 'mov', 'gif', 'png'];

/** The options of a request: what was said, and nothing else. */
export function optionsOf({ preset, format, other, ...numbers }: Wanted): Record<string, unknown> {
  const said = Object.entries(numbers).flatMap(([name, text]) => (text.trim() ? [[name, numberOf(text)] as const] : []));
  return { ...otherOf(other.trim()), ...(preset ? { preset } : {}), ...(format ? { format } : {}), ...Object.fromEntries(said) };
}

function otherOf(text: string): object {
  let read: unknown;
  try {
    read = text === '' ? {} : JSON.parse(text);
  } catch (error) {
    throw wrong('options', `The other options are not JSON: ${String(error)}`);
  }
  if (typeof read !== 'object' || read === null || Array.isArray(read)) throw wrong('options', 'The other options are no JSON object, such as {"alpha": true}.');
  return read;
}

/** What is wrong with a field before anything is sent. */
function wrong(field: 'options' | 'rows', problem: string): Problem {
  return new Problem(0, `INVALID_${field.toUpperCase()}`, problem, [{ field, problem }]);
}

/** The rows of a batch, of a file of JSON, of JSON lines or of CSV: what their types are the server says. */
export function rowsOf(name: string, text: string): unknown {
  const kind = name.toLowerCase().split('.').at(-1);
  try {
    if (kind === 'csv') return csvRows(text);
    if (kind === 'jsonl' || kind === 'ndjson') return text.split('\n').filter((line) => line.trim()).map((line) => JSON.parse(line) as unknown);
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw error instanceof Problem ? error : wrong('rows', `${name} cannot be read: ${String(error)}`);
  }
}

function csvRows(text: string): Record<string, string>[] {
  const [names = [], ...rows] = csvFields(text.replace(/^\uFEFF/, ''));
  return rows.map((fields, at) => {
    if (fields.length !== names.length)
      throw wrong('rows', `Row ${at + 2} has ${fields.length} fields, and the first line names ${names.length}.`);
    return Object.fromEntries(names.map((name, each) => [name, fields[each] ?? '']));
  });
}

/** Lines of fields: in quotes, a comma and a line's end are text, and two quotes are one. */
function csvFields(text: string): string[][] {
  const lines: string[][] = [];
  let line: string[] = [];
  let read = 0;
  for (const { index, 0: all, 1: quoted, 2: plain = '', 3: end } of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/g)) {
    if (index !== read) throw wrong('rows', `Row ${lines.length + 1} is not CSV.`);
    read += all.length;
    if (end === '' && quoted === undefined && plain === '' && line.length === 0) break;
    line.push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
    if (end === ',') continue;
    lines.push(line);
    line = [];
    if (end === '') break;
  }
  return lines.filter((fields) => fields.length > 1 || fields[0] !== '');
}

/** A zip of one page, as it is: the server takes a page with all that belongs to it as a zip. */
export function zipped(page: Uint8Array<ArrayBuffer>): Blob {
  const name = new TextEncoder().encode('index.html');
  const sum = crcOf(page);
  const common = [20, 0, 0, 0, 0x21, sum & 0xffff, sum >>> 16, page.length & 0xffff, page.length >>> 16, page.length & 0xffff, page.length >>> 16, name.length, 0];
  const local = words([0x4b50, 0x0403, ...common]);
  const listed = words([0x4b50, 0x0201, 20, ...common, 0, 0, 0, 0, 0, 0, 0]);
  const [before, size] = [local.length + name.length + page.length, listed.length + name.length];
  const end = words([0x4b50, 0x0605, 0, 0, 1, 1, size & 0xffff, size >>> 16, before & 0xffff, before >>> 16, 0]);
  return new Blob([local, name, page, listed, name, end], { type: 'application/zip' });
}

/** Numbers of 16 bits, the low byte first. */
function words(values: readonly number[]): Uint8Array<ArrayBuffer> {
  return new Uint8Array(values.flatMap((value) => [value & 0xff, (value >>> 8) & 0xff]));
}

function crcOf(bytes: Uint8Array): number {
  let sum = 0xffffffff;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit += 1) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0);
  }
  return (sum ^ 0xffffffff) >>> 0;
}
