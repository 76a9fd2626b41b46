import { Link } from 'wouter';

export function Missing({ what, why = "It may have been deleted, or be somebody else's." }: { what: string; why?: string }) {
  return (
    <div className="mx-auto max-w-md py-24 text-center">
      <h1 className="mx-auto text-2xl font-semibold tracking-tight">{what}</h1>
      <p className="mt-3 text-muted">{why}</p>
      <Link href="/" className="mt-6 inline-block text-accent underline underline-offset-4">
        To all sessions
      </Link>
    </div>
  );
}
