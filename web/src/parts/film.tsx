import { Maximize, Volume2, VolumeX } from 'lucide-react';
import { useEffect, useRef, useState } from 'react';
import type { Schemas } from '../api/client';
import { useKey } from './keys';
import { ICON, Transport } from './transport';

interface Shown {
  src: string;
  poster: string;
  label: string;
  duration: number;
  fps: number;
  scenes: Schemas['Plan']['scenes'];
  wide: number;
  isOld: boolean;
  gone: () => void;
}

/** A video, moved by frames as the live page is. */
export function Film({ src, poster, label, duration, fps, scenes, wide, isOld, gone }: Shown) {
  const video = useRef<HTMLVideoElement>(null);
  const whole = useRef<HTMLDivElement>(null);
  const [time, setTime] = useState(0);
  const [playing, setPlaying] = useState(false);
  const [muted, setMuted] = useState(false);
  useEffect(() => {
    if (!playing) return;
    let next = 0;
    const look = () => {
      setTime(video.current?.currentTime ?? 0);
      next = requestAnimationFrame(look);
    };
    look();
    return () => cancelAnimationFrame(next);
  }, [playing]);
  const fill = () => void (document.fullscreenElement ? document.exitFullscreen() : whole.current?.requestFullscreen());
  useKey('f', fill);
  const play = () => void video.current?.play().catch(() => undefined); // what cannot be played says so by itself
  const pause = () => video.current?.pause();
  const seek = (to: number) => {
    if (!video.current) return;
    pause();
    video.current.currentTime = to + 0.5 / fps; // at a frame's very beginning a browser may show the one before
    setTime(to);
  };
  const failed = () =>
    void fetch(src, { method: 'HEAD', redirect: 'manual' }).then(({ status }) => status === 404 && gone(), () => undefined); // prettier-ignore
  return (
    <div
      ref={whole}
      className="space-y-2 [&:fullscreen]:flex [&:fullscreen]:flex-col [&:fullscreen]:justify-center [&:fullscreen]:bg-ground [&:fullscreen]:p-4"
    >
      <div
        className="relative mx-auto grid max-h-[72dvh] w-full place-items-center overflow-hidden rounded-2xl border border-line bg-sunken"
        style={{ aspectRatio: String(wide) }}
      >
        <video
          ref={video}
          className={`size-full bg-black object-contain ${isOld ? 'opacity-50' : ''}`}
          src={src}
          poster={poster}
          loop
          playsInline
          muted={muted}
          preload="metadata"
          aria-label={label}
          onClick={() => (playing ? pause() : play())}
          onPlay={() => setPlaying(true)}
          onPause={() => setPlaying(false)}
          onSeeked={({ currentTarget }) => setTime(currentTarget.currentTime)}
          onError={failed}
        />
        {isOld && <p className="absolute top-3 left-3 rounded-lg bg-panel px-2.5 py-1 text-sm">As it was before; a new one is being made</p>}
      </div>
      <Transport scenes={scenes} moved={{ time, duration, fps, playing, seek, play, pause }}>
        <button type="button" className={ICON} aria-label="Sound" aria-pressed={!muted} title="Sound" onClick={() => setMuted(!muted)}>
          {muted ? <VolumeX aria-hidden className="size-4" /> : <Volume2 aria-hidden className="size-4" />}
        </button>
        <button type="button" className={ICON} aria-label="Full screen" title="F" onClick={fill}>
          <Maximize aria-hidden className="size-4" />
        </button>
      </Transport>
    </div>
  );
}
