/** Koda's animation node: what a React Flow canvas needs to show it, and to have other nodes beside it. */
import { animationGenerator } from './official';
import { registry } from './registry';
import './style.css';

registry.register(animationGenerator);

export { animationGeneratorPlugin } from './animation-generator';
export { AnimationScreen, PhaseLine, titleOf, useWhere } from './animation';
export { AnimationNode } from './animation-node';
export { type Given, KodaProvider, useAround, useGiven, useSeen } from './context';
export { FallbackNode } from './fallback-node';
export { Problem } from './http';
export { type CommandName, type CreateSession, Koda, type KodaOptions } from './koda';
export * from './plugin';
export { type CanvasNode, nodeTypes, PluginNode } from './plugin-node';
export { type Entry, type NodeData, type NodeParts, Registry, registry } from './registry';
export type { AnimationData } from './request';
export { mood, type Mood, type NodeSession, phaseWords, type Progress, type SessionEvent, type SessionState } from './session';
export { type Seen, Sessions } from './sessions';
export { Sockets } from './sockets';
export { type Link, Stream } from './stream';
export { connected, type Edge, fits, handleOf, mayConnect, type Value } from './values';
