import { Link } from 'wouter';

export function Missing({ what = 'There is no such page.' }: { what?: string }) {
  return (
    <div className="mx-auto max-w-md py-24 text-center">
      <h1 className="text-2xl font-semibold tracking-tight">{what}</h1>
      <p className="mt-3 text-muted">It may have been deleted, or be somebody else's.</p>
      <Link href="/" className="mt-6 inline-block text-accent underline underline-offset-4">
        To all sessions
      </Link>
    </div>
  );
}
