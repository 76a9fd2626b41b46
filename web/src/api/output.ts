/** What a process wrote to its terminal, as text that is read. */

/** So much of it is kept on the page. */
export const MOST_CHARS = 200_000;
// what moves a terminal's cursor, colours it or names its window. Source: ECMA-48, section 5.4; xterm's control sequences
const CONTROLS = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[PX^_][^\u001b]*\u001b\\|[ -/]*[0-OQ-WYZ\\`-~])/g;
// of a sequence that is not whole yet
const BEGUN = /\u001b(?:\[[0-?]*[ -/]*|\][^\u0007\u001b]*|[ -/]*)$/;

/** Add what came to what was there; as much of its end as is kept. */
export function withMore(there: string, more: string): string {
  const all = there + more;
  return all.length > MOST_CHARS ? all.slice(-MOST_CHARS) : all;
}

/** The lines that a terminal would have shown: without colours, and of what was written over, such as how far something is, the last. */
export function readable(written: string): string {
  const plain = written.replace(CONTROLS, '').replace(BEGUN, '').replace(/\r+\n/g, '\n');
  const lines = plain.split('\n').map((line) => {
    const last = line.replace(/\r+$/, '');
    return last.slice(last.lastIndexOf('\r') + 1);
  });
  return lines.join('\n').replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g, '');
}
