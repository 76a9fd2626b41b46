const HIGH = 32;
/** What a codec makes of the same picture is no difference: a curve is never drawn larger than this. */
const LEAST = 0.004;

/** By how much two videos differ, over the timeline below it; a click goes where it is clicked, the button where that is most. */
export function Curve({ values, seek }: { values: readonly number[]; seek: (frame: number) => void }) {
  const most = values.reduce((found, value, at) => (value > (values[found] ?? 0) ? at : found), 0);
  const top = Math.max(LEAST, values[most] ?? 0);
  const last = Math.max(1, values.length - 1);
  const points = values.map((value, at) => `${at},${HIGH - (value / top) * (HIGH - 2)}`);
  const isSame = (values[most] ?? 0) < LEAST / 4;
  return (
    <div className="space-y-1.5 pb-1.5">
      <svg
        role="img"
        aria-label={isSame ? 'Both show the same in every frame' : `How much they differ, most at frame ${most}`}
        viewBox={`0 0 ${last} ${HIGH}`}
        preserveAspectRatio="none"
        className="block h-8 w-full cursor-pointer overflow-visible rounded-sm bg-sunken text-accent"
        onClick={({ currentTarget, clientX }) => {
          const { left, width } = currentTarget.getBoundingClientRect();
          seek(Math.round(((clientX - left) / width) * last));
        }}
      >
        <path d={`M0,${HIGH}L${points.join('L')}L${last},${HIGH}Z`} fill="currentColor" opacity={0.25} />
        <path d={`M${points.join('L')}`} fill="none" stroke="currentColor" strokeWidth={1.5} vectorEffect="non-scaling-stroke" />
      </svg>
      <p className="flex justify-between text-xs text-muted">
        {isSame ? (
          <span>Both show the same in every frame.</span>
        ) : (
          <button type="button" className="min-h-6 underline-offset-4 hover:text-text hover:underline" onClick={() => seek(most)}>
            They differ most at frame {most}
          </button>
        )}
      </p>
    </div>
  );
}
