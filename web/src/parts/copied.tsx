import { Check, Copy } from 'lucide-react';
import { useRef, useState } from 'react';
import { Button } from './button';

/** Text to be taken elsewhere. Where a browser gives pages no clipboard, which takes https, it is selected instead. */
export function Copied({ label, text }: { label: string; text: string }) {
  const field = useRef<HTMLInputElement>(null);
  const [said, setSaid] = useState('');
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setSaid('Copied');
    } catch {
      field.current?.focus();
      field.current?.select();
      setSaid('It is selected: copy it with your keyboard');
    }
  };
  return (
    <div>
      <div className="flex items-center gap-2">
        <input
          ref={field}
          readOnly
          aria-label={label}
          className="field min-w-0 flex-1 font-mono text-xs"
          value={text.replaceAll('\n', ' ')} // a line has no other way to show them
          onFocus={({ currentTarget }) => currentTarget.select()}
        />
        <Button className="shrink-0 px-3 text-sm" aria-label={`Copy: ${label}`} onClick={() => void copy()}>
          {said === 'Copied' ? <Check aria-hidden className="size-4 text-good" /> : <Copy aria-hidden className="size-4" />} Copy
        </Button>
      </div>
      <p role="status" className={said ? 'mt-1 text-sm text-muted' : 'sr-only'}>
        {said}
      </p>
    </div>
  );
}
