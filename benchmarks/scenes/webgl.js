// A lit, shadowed three.js scene under DOM text: spheres on a turntable, a caption and a progress bar.
import * as THREE from "three";

export function mount(root, { width, height }) {
  const renderer = new THREE.WebGLRenderer({ antialias: true, powerPreference: "high-performance" });
  renderer.setPixelRatio(1);
  renderer.setSize(width, height);
  renderer.shadowMap.enabled = true;
  renderer.shadowMap.type = THREE.PCFShadowMap;
  renderer.domElement.style.display = "block";
  root.appendChild(renderer.domElement);

  const scene = new THREE.Scene();
  scene.background = new THREE.Color("#182338");
  const camera = new THREE.PerspectiveCamera(40, width / height, 0.1, 60);
  camera.position.set(0, 3.4, 10);
  camera.lookAt(0, 1, 0);
  scene.add(new THREE.HemisphereLight("#cfe3ff", "#3a2c22", 0.8));
  const sun = new THREE.DirectionalLight("#fff4e0", 2.4);
  sun.position.set(-4, 8, 5);
  sun.castShadow = true;
  sun.shadow.mapSize.set(1024, 1024);
  Object.assign(sun.shadow.camera, { left: -7, right: 7, top: 7, bottom: -7 });
  scene.add(sun);

  const lit = (color, roughness) => new THREE.MeshStandardMaterial({ color, roughness, metalness: 0.1 });
  const add = (geometry, material) => {
    const mesh = new THREE.Mesh(geometry, material);
    mesh.castShadow = mesh.receiveShadow = true;
    scene.add(mesh);
    return mesh;
  };
  const floor = add(new THREE.PlaneGeometry(40, 40), lit("#51617a", 0.85));
  floor.rotation.x = -Math.PI / 2;
  const hero = add(new THREE.TorusKnotGeometry(0.9, 0.3, 160, 24), lit("#ff6a3d", 0.35));
  const ring = Array.from({ length: 9 }, (_, i) =>
    add(new THREE.SphereGeometry(0.42, 40, 28), lit(new THREE.Color().setHSL(i / 9, 0.65, 0.55), 0.45)));

  const caption = document.createElement("div");
  caption.style.cssText = `position:absolute;left:5%;top:6%;color:#fff;font:700 ${height * 0.085}px "DejaVu Sans",sans-serif;text-shadow:0 2px 14px #000a`;
  const bar = document.createElement("div");
  bar.style.cssText = `position:absolute;left:5%;bottom:6%;width:90%;height:${height * 0.012}px;border-radius:99px;background:linear-gradient(90deg,#ff6a3d,#ffd27a);transform-origin:0 50%`;
  root.append(caption, bar);

  return (seconds) => {
    hero.position.set(0, 1.9 + 0.35 * Math.sin(seconds * 2.2), 0);
    hero.rotation.set(seconds * 0.6, seconds * 0.9, 0);
    ring.forEach((ball, i) => {
      const angle = (i / 9) * Math.PI * 2 + seconds * 0.55;
      ball.position.set(Math.cos(angle) * 3.6, 0.45 + Math.abs(Math.sin(seconds * 2 + i)) * 0.9, Math.sin(angle) * 3.6);
    });
    renderer.render(scene, camera);
    caption.textContent = `Turntable ${seconds.toFixed(2)}`;
    bar.style.transform = `scaleX(${(seconds / 6) % 1})`;
  };
}
