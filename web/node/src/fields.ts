/** Which of the fields that somebody typed into a server refused, in its own words. */
import type { Problem } from './http';

export type Refusal = Problem | null | undefined;

/** What was said of a field, named as the request has it (`budget.tokens`), or of something in it; undefined: nothing. */
export function fieldOf(problem: Refusal, name: string, except: readonly string[] = []): string | undefined {
  const said = (problem?.fields ?? []).flatMap(({ field, problem: words }) => {
    if (!isIn(field, name) || except.some((each) => isIn(field, each))) return [];
    return field === name ? words : `${field.slice(name.length + 1)}: ${words}`;
  });
  return said.length > 0 ? said.join('; ') : undefined;
}

/** What there is to say beside the fields of these names, which say what is theirs; undefined: nothing. */
export function restOf(problem: Refusal, names: readonly string[]): string | undefined {
  if (!problem) return undefined;
  const rest = problem.fields.filter(({ field }) => !names.some((each) => isIn(field, each)));
  if (rest.length === problem.fields.length) return problem.message;
  return rest.length > 0 ? rest.map(({ field, problem: words }) => `${field}: ${words}`).join('; ') : undefined;
}

function isIn(field: string, name: string): boolean {
  return field === name || field.startsWith(`${name}.`);
}
