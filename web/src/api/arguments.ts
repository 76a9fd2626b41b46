/** What a call of a tool is made with, as it is typed: text as it is, anything else as JSON. */

export type Given = Readonly<Record<string, unknown>>;

/** What was typed, by the argument's name; what is not in it was left as it was proposed. */
export type TypedArguments = Readonly<Record<string, string>>;

/** An argument as it is read and typed. */
export function argumentText(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value, null, 2);
}

/** What a person has it run with: the arguments, where one is another by now, and the names of those that are no JSON. */
export function argumentsOf(proposed: Given, typed: TypedArguments): { given: Given | undefined; wrong: readonly string[] } {
  const wrong: string[] = [];
  let isOther = false;
  const given = Object.entries(proposed).map(([name, value]) => {
    const text = typed[name];
    if (text === undefined || text === argumentText(value)) return [name, value] as const;
    isOther = true;
    if (typeof value === 'string') return [name, text] as const;
    try {
      return [name, JSON.parse(text) as unknown] as const;
    } catch {
      wrong.push(name);
      return [name, value] as const;
    }
  });
  return { given: isOther ? Object.fromEntries(given) : undefined, wrong };
}
