import { type RefObject, useEffect, useRef, useState } from 'react';

/**
 * What is being typed in place of a button that opened it; none while it is closed. Once it is closed again, and the
 * button is there again, that has the focus.
 */
export function useDraft(): [string | undefined, (draft: string | undefined) => void, RefObject<HTMLButtonElement | null>] {
  const [draft, setDraft] = useState<string>();
  const opener = useRef<HTMLButtonElement>(null);
  const isOpen = draft !== undefined;
  const wasOpen = useRef(false);
  useEffect(() => {
    if (!isOpen && wasOpen.current) opener.current?.focus();
    wasOpen.current = isOpen;
  }, [isOpen]);
  return [draft, setDraft, opener];
}
