// State by effects, timers, a transition of lower priority and a promise that is waited for.
import { Suspense, lazy, startTransition, useEffect, useState } from "react";
import { createRoot } from "react-dom/client";

const Late = lazy(() => new Promise((done) => setTimeout(() => done({ default: () => <b /> }), 250)));

function Bars() {
  const [step, setStep] = useState(0);
  const [shift, setShift] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setStep((was) => was + 1), 100);
    return () => clearInterval(timer);
  }, []);
  useEffect(() => { startTransition(() => setShift(step * 7)); }, [step]);
  const bars = Array.from({ length: 5 }, (_, i) => ({ left: shift, top: 12 + i * 32, width: 40 + ((i * 53 + step * 13) % 150) }));
  return <ul>{bars.map((style, i) => <li key={i} style={style} />)}</ul>;
}

createRoot(document.getElementById("root")).render(<>
  <Bars />
  <Suspense fallback={null}><Late /></Suspense> {/* @gone */}
</>);
