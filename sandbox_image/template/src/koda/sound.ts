// Lets whoever watches the page mute all of it, whatever in it sounds.
//
// An element that plays is muted by itself, also one that stands nowhere in the document. What a graph of sounds gives to
// its context's destination goes through one volume, so that it goes on in its time while nobody hears it.
// A renderer takes its sound from somewhere else: this is there in live mode only.
let isMuted = false;
const elements = new Set<WeakRef<HTMLMediaElement>>();
const known = new WeakMap<HTMLMediaElement, { isQuiet: boolean }>(); // as the page itself has it
const volumes = new Set<WeakRef<GainNode>>();
const volumeOf = new WeakMap<BaseAudioContext, GainNode>();

function quieten(element: HTMLMediaElement): void {
  const own = known.get(element);
  if (own) element.muted = isMuted || own.isQuiet;
}

function know(element: HTMLMediaElement): void {
  if (known.has(element)) return;
  const own = { isQuiet: element.muted };
  known.set(element, own);
  elements.add(new WeakRef(element));
  element.addEventListener('volumechange', () => {
    if (!isMuted) own.isQuiet = element.muted;
    else if (!element.muted) {
      own.isQuiet = false; // the page wants it heard, later
      element.muted = true;
    }
  });
  quieten(element);
}

/** Where in place of its destination a context's graph leads. */
function throughVolume(to: AudioNode | AudioParam | undefined): AudioNode | AudioParam | undefined {
  if (!(to instanceof AudioDestinationNode) || !(to.context instanceof AudioContext)) return to;
  const there = volumeOf.get(to.context);
  if (there) return there;
  const volume = to.context.createGain();
  volume.gain.value = isMuted ? 0 : 1;
  connect.call(volume, to);
  volumeOf.set(to.context, volume);
  volumes.add(new WeakRef(volume));
  return volume;
}

type Wire = (this: AudioNode, to?: AudioNode | AudioParam | number, ...ends: number[]) => unknown;

const connect = AudioNode.prototype.connect as Wire;
const disconnect = AudioNode.prototype.disconnect as Wire;

/** Hear of all that sounds; before any code of the app runs. */
export function listenForSound(): void {
  const { play } = HTMLMediaElement.prototype;
  HTMLMediaElement.prototype.play = function (this: HTMLMediaElement) {
    know(this);
    return play.call(this);
  };
  document.addEventListener('play', ({ target }) => target instanceof HTMLMediaElement && know(target), true);
  const wire: Wire = function (to, ...ends) {
    connect.call(this, throughVolume(to as AudioNode), ...ends);
    return to;
  };
  const cut: Wire = function (...given) {
    const [to, ...ends] = given;
    if (given.length === 0 || typeof to === 'number') return disconnect.apply(this, given);
    return disconnect.call(this, throughVolume(to), ...ends);
  };
  Object.assign(AudioNode.prototype, { connect: wire, disconnect: cut });
}

/** Have nothing of the page be heard, or all of it again that the page itself did not mute. */
export function mute(wants: boolean): void {
  isMuted = wants;
  for (const held of elements) {
    const element = held.deref();
    if (element) quieten(element);
    else elements.delete(held);
  }
  for (const held of volumes) {
    const volume = held.deref();
    if (volume) volume.gain.value = isMuted ? 0 : 1;
    else volumes.delete(held);
  }
}
