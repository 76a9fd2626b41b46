// One page for many questions: `?case=NAME` chooses what it shows.
import { Canvas, useFrame } from '@react-three/fiber';
import { Environment, Float, Text, useTexture } from '@react-three/drei';
import { editable as e } from '@theatre/r3f';
import { Heart } from 'lucide-react';
import { createContext, Suspense, useContext, useEffect, useRef, useState, type ComponentType } from 'react';
import { Bar, BarChart } from 'recharts';
import { Group, Mesh, Vector2 } from 'three';
import { useCurrentFrame } from './hooks/useCurrentFrame';
import { useCurrentTime } from './hooks/useCurrentTime';
import { FONT } from './koda/fonts';
import { pending } from './koda/pending';
import { Layer, Stage } from './koda/Stage';

const page = window as unknown as { probe: Record<string, unknown> };
page.probe = { contractAtImport: typeof window.__koda?.seek };

function Words() {
  return (
    <Layer style={{ color: '#fff', fontSize: 120, padding: 80 }}>
      <div id="latin" style={{ fontFamily: FONT.display }}>Grüße, Ωmega</div>
      <div id="japanese" style={{ fontFamily: FONT.serif }}>桜が咲く日</div>
      <div id="korean" style={{ fontFamily: FONT.sans }}>안녕하세요</div>
      <div id="chinese" style={{ fontFamily: FONT.sans }}>{'\u8fd9\u4e2a\u4e16\u754c'}</div>
      <div id="emoji" style={{ fontFamily: FONT.mono }}>🎉🦊</div>
    </Layer>
  );
}

const Tint = createContext('#ff0000');

function Turning() {
  const mesh = useRef<Mesh>(null);
  const elapsed = useRef(0);
  const color = useContext(Tint);
  useFrame(({ clock }, delta) => {
    elapsed.current += delta;
    page.probe.integrated = elapsed.current;
    page.probe.elapsed = clock.elapsedTime;
    if (mesh.current) mesh.current.rotation.set(elapsed.current, elapsed.current * 0.7, 0);
  });
  return (
    <mesh ref={mesh} position={[-2, 0, 0]}>
      <boxGeometry args={[1.4, 1.4, 1.4]} />
      <meshStandardMaterial color={color} roughness={0.4} />
    </mesh>
  );
}

function Picture() {
  const texture = useTexture(`${import.meta.env.BASE_URL}dot.png`);
  return (
    <sprite position={[2, 1.2, 0]} scale={0.6}>
      <spriteMaterial map={texture} />
    </sprite>
  );
}

function Solid() {
  return (
    <Tint.Provider value="#22cc88">
      <Canvas camera={{ position: [0, 0, 7] }}>
        <Environment preset="city" />
        <Turning />
        <Picture />
        <Float floatIntensity={3}>
          <Text position={[1.5, 0, 0]} fontSize={0.6} color="#ffcc00">Hello</Text>
        </Float>
        <Text position={[1.5, -1.2, 0]} fontSize={0.6}>花火🎆</Text>
        <e.mesh theatreKey="Box" position={[0, 1.6, 0]}>
          <boxGeometry args={[0.5, 0.5, 0.5]} />
          <meshBasicMaterial color="#ffffff" />
        </e.mesh>
      </Canvas>
    </Tint.Provider>
  );
}

function Counted() {
  const frame = useCurrentFrame();
  const frame15 = useCurrentFrame(15);
  const time = useCurrentTime();
  const [seen, setSeen] = useState(-1);
  useEffect(() => setSeen(time), [time]);
  page.probe.frames = [frame, frame15];
  return <Layer style={{ color: '#fff', fontSize: 200 }}><p id="seen">{seen.toFixed(3)}</p></Layer>;
}

function ThrowsLate() {
  const time = useCurrentTime();
  if (time > 1) throw new Error(`too late: ${time}`);
  return <p>fine</p>;
}

function ThrowsAtOnce(): never {
  throw new TypeError('no such thing as a free frame');
}

function NotAComponent() {
  const Missing = undefined as unknown as ComponentType;
  return <Missing />;
}

function Waits() {
  useEffect(() => pending.hold('the moon'), []);
  return <p>waiting</p>;
}

const resources = new Map<string, Promise<void> & { done?: boolean }>();
function Late({ name }: { name: string }) {
  let resource = resources.get(name);
  if (!resource) {
    resource = fetch(`${import.meta.env.BASE_URL}dot.png`).then(async (response) => {
      await response.blob();
      (resource as { done?: boolean }).done = true;
    });
    resources.set(name, resource);
  }
  if (!resource.done) throw resource;
  return <p className="late">{name} is here</p>;
}

function Suspends() {
  const time = useCurrentTime();
  return (
    <>
      <Late name="first" />
      {time > 0.5 && <Late name="second" />}
      {time > 0.5 && <img id="picture" src={`${import.meta.env.BASE_URL}dot.png`} alt="" />}
    </>
  );
}

function MissingImage() {
  return <img src={`${import.meta.env.BASE_URL}nowhere.png`} alt="" />;
}

function Charts() {
  const data = [12, 30, 45, 70].map((value) => ({ value }));
  return (
    <Layer>
      <BarChart width={800} height={600} data={data}>
        <Bar dataKey="value" fill="#3b82f6" isAnimationActive={false} />
      </BarChart>
      <Heart size={200} color="#ff0055" />
    </Layer>
  );
}

function Aside() {
  const group = useRef<Group>(null);
  const size = useRef(new Vector2());
  useFrame(({ gl, size: own }) => {
    page.probe.buffer = gl.getDrawingBufferSize(size.current).toArray();
    page.probe.design = [own.width, own.height];
  });
  return <group ref={group} />;
}

function Scattered() {
  const mesh = useRef<Mesh>(null);
  useFrame(() => mesh.current?.position.set(Math.random() * 4 - 2, Math.random() * 2 - 1, -1));
  return (
    <mesh ref={mesh}>
      <sphereGeometry args={[0.3, 16, 8]} />
      <meshBasicMaterial color="#ffffff" />
    </mesh>
  );
}

// Everything that an exact seek does not restore: summed time, random numbers, a random phase, the browser's own clock.
function Film() {
  return (
    <>
      <Canvas camera={{ position: [0, 0, 7] }}>
        <ambientLight intensity={2} />
        <Turning />
        <Scattered />
        <Float speed={4} floatIntensity={3}>
          <mesh position={[2, 0, 0]}>
            <boxGeometry />
            <meshBasicMaterial color="#ffcc00" />
          </mesh>
        </Float>
      </Canvas>
      <style>{'@keyframes slide { to { transform: translateX(1500px) rotate(1turn); } }'}</style>
      <div style={{ width: 200, height: 200, background: '#ff0055', animation: 'slide 1.7s linear infinite' }} />
    </>
  );
}

const CASES: Record<string, ComponentType> = {
  film: Film,
  words: Words,
  solid: Solid,
  counted: Counted,
  'throws-late': ThrowsLate,
  'throws-at-once': ThrowsAtOnce,
  'not-a-component': NotAComponent,
  waits: Waits,
  suspends: Suspends,
  'missing-image': MissingImage,
  charts: Charts,
  size: () => (
    <Canvas>
      <Aside />
    </Canvas>
  ),
};

export default function App() {
  const Case = CASES[new URLSearchParams(window.location.search).get('case') ?? 'film'];
  return (
    <Stage background="#101820">
      <Suspense fallback={null}>{null}</Suspense>
      {Case && <Case />}
    </Stage>
  );
}
