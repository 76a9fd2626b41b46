// Says which JSON file is wrong, and where: the bundler's own words for it name no file.
import type { Plugin } from 'vite';

/** Where JSON.parse gave up, as line from 1 and column from 0; the file's end where its words do not say. */
function placeOf(code: string, error: unknown): { line: number; column: number } {
  const at = Number(/at position (\d+)/.exec(String(error))?.[1] ?? code.length);
  const before = code.slice(0, at).split('\n');
  return { line: before.length, column: (before.at(-1) ?? '').length };
}

/** The plugin. */
export function namedJson(): Plugin {
  return {
    name: 'koda:json',
    enforce: 'pre',
    apply: 'build',
    transform: {
      filter: { id: /\.json$/ },
      handler(code, id) {
        try {
          JSON.parse(code.replace(/^\uFEFF/, ''));
        } catch (error) {
          const { line, column } = placeOf(code, error);
          this.error({ id, loc: { file: id, line, column }, message: `Failed to parse JSON: ${String(error)}` });
        }
        return null;
      },
    },
  };
}
