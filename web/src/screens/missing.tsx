import { Link } from 'wouter';

interface Props {
  what: string;
  why?: string;
  /** Where one may go on, and in which words. */
  way?: readonly [href: string, words: string];
}

export function Missing({ what, why = "It may have been deleted, or be somebody else's.", way: [href, words] = ['/', 'To all sessions'] }: Props) {
  return (
    <div className="mx-auto max-w-md py-24 text-center">
      <h1 className="mx-auto text-2xl font-semibold tracking-tight">{what}</h1>
      <p className="mt-3 text-muted">{why}</p>
      <Link href={href} className="mt-6 inline-block text-accent underline underline-offset-4">
        {words}
      </Link>
    </div>
  );
}
