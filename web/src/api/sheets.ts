/**
 * Style sheets of parts that come late. Vite's loader asks for each once: one that did not come would be missing for good while its
 * part, asked for again, comes without it. So those are asked for again here, before their part is.
 */

interface Sheet {
  href: string;
}

export class Sheets<Link extends Sheet = HTMLLinkElement> {
  /** Those that did not come, by address. */
  private readonly lost = new Map<string, Link>();

  /** `again` asks for one anew; it fails where that does not come either. */
  constructor(private readonly again: (link: Link) => Promise<void>) {}

  /** Note one that did not come. */
  lose = (link: Link): void => void this.lost.set(link.href, link);

  /** The same way of a part to come, which fails as long as a sheet does not come that it asked for. */
  with<Part>(load: () => Promise<Part>): () => Promise<Part> {
    const own = new Set<string>();
    return async () => {
      await this.retry();
      const missing = [...own].find((href) => this.lost.has(href));
      if (missing) throw new Error(`its style sheet ${missing} did not come`);
      const before = new Set(this.lost.keys());
      try {
        return await load();
      } catch (problem) {
        for (const href of this.lost.keys()) if (!before.has(href)) own.add(href);
        throw problem;
      }
    };
  }

  private async retry(): Promise<void> {
    const links = [...this.lost];
    await Promise.all(
      links.map(([href, link]) =>
        this.again(link).then(
          () => this.lost.delete(href),
          () => undefined,
        ),
      ),
    );
  }
}

export const sheets = new Sheets<HTMLLinkElement>((link) => {
  const anew = link.cloneNode() as HTMLLinkElement;
  return new Promise<void>((came, failed) => {
    anew.onload = () => came();
    anew.onerror = () => failed(new Error('it did not come'));
    link.replaceWith(anew);
  });
});

/** Hear of those that do not come; what fails to load tells nobody around it. */
export function heedSheets(): void {
  const failed = ({ target }: Event) => target instanceof HTMLLinkElement && target.rel === 'stylesheet' && sheets.lose(target);
  window.addEventListener('error', failed, { capture: true });
}
