// Makes builds fast: `import { Float } from '@react-three/drei'` loads the file that Float is in, not all 650 of them.
//
// These packages are one big index each, and a bundler reads every file that it names before it drops them. In a build,
// named imports from them are rewritten, on the same line, to the file that the index takes the name from. What
// cannot be placed (namespace imports, names that the index makes itself) is left as it is.
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { Plugin } from 'vite';
import { FRONTS } from './redirect';

// each package and its index
const BARRELS: Record<string, string> = {
  '@react-three/drei': 'index.js',
  'three-stdlib': 'index.js',
  'lucide-react': 'dist/esm/lucide-react.js',
};

interface Place {
  readonly file: string;
  /** The name under which that file exports it. */
  readonly name: string;
}

const CLAUSE = /\b(?:import|export)\s*\{([^}]*)\}\s*from\s*(['"])([^'"]+)\2/g;

function names(clause: string): { name: string; local: string; isType: boolean }[] {
  return clause
    .replace(/\/\*.*?\*\/|\/\/[^\n]*/gs, '')
    .split(',')
    .map((part) => part.trim())
    .filter(Boolean)
    .map((part) => {
      const isType = /^type\s/.test(part);
      const [name = '', local = name] = part.replace(/^type\s+/, '').split(/\s+as\s+/);
      return { name: name.trim(), local: local.trim(), isType };
    });
}

/** Where an index takes its names from. */
function readBarrel(index: string): Map<string, Place> {
  const places = new Map<string, Place>();
  const folder = path.dirname(index);
  for (const [, clause = '', , source = ''] of readFileSync(index, 'utf8').matchAll(CLAUSE)) {
    if (!source.startsWith('.')) continue;
    for (const { name, local } of names(clause)) places.set(local, { file: path.join(folder, source), name });
  }
  return places;
}

/** The plugin. `root` is the project's absolute path. */
export function shortImports(root: string): Plugin {
  const modules = path.join(root, 'node_modules');
  const read = new Map<string, Map<string, Place>>();
  const placesIn = (index: string): Map<string, Place> => {
    const known = read.get(index) ?? (existsSync(index) ? readBarrel(index) : new Map<string, Place>());
    read.set(index, known);
    return known;
  };
  return {
    name: 'koda:short-imports',
    enforce: 'pre',
    apply: 'build',
    transform(code, id) {
      if (!/\.[jt]sx?$/.test(id.split('?')[0] ?? id)) return null;
      const isProjects = !id.includes('/node_modules/') && !id.includes('/src/koda/');
      const short = code.replace(CLAUSE, (statement: string, clause: string, _quote: string, source: string) => {
        const index = BARRELS[source];
        if (index === undefined || !statement.startsWith('import')) return statement;
        const places = new Map(placesIn(path.join(modules, source, index)));
        // the runtime's replacements, for the files that redirect.ts gives them to
        const front = isProjects ? FRONTS[source] : undefined;
        if (front) for (const [name, place] of placesIn(path.join(root, front))) places.set(name, place);
        const wanted = names(clause).filter(({ isType }) => !isType);
        if (!wanted.every(({ name }) => places.has(name))) return statement;
        const parts = wanted.map(({ name, local }) => {
          const place = places.get(name) as Place;
          return `import { ${place.name} as ${local} } from ${JSON.stringify(place.file)}`;
        });
        return parts.join('; ') + '\n'.repeat(statement.split('\n').length - 1);
      });
      return short === code ? null : { code: short, map: null };
    },
  };
}
