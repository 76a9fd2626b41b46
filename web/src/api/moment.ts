/** Going to a moment of a version: that is shown then, and stands in the address. */
import { useLocation } from 'wouter';
import type { VersionView } from './client';
import { goTo, withPlace } from './place';

/** What goes to seconds of a version on the stage, or of what the session shows. */
export function useMoment(): (version: VersionView | undefined, at: number) => void {
  const [path, navigate] = useLocation();
  return (version, at) => {
    const place = new URLSearchParams(withPlace(window.location.search, { t: at })); // where what is shown comes only now
    if (version && !version.current) place.set('v', String(version.number));
    else place.delete('v');
    navigate(`${path}?${place}`, { replace: true });
    goTo(at);
  };
}
