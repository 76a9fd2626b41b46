/** What people type where a number is meant. */

/** The number, or what was typed where that is none: the server says what is wrong with it. */
export function numberOf(text: string): number | string {
  const typed = text.trim();
  const value = Number(typed);
  return typed !== '' && Number.isFinite(value) ? value : typed;
}
