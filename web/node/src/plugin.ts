/** What a canvas has to know of an agent before it can show it as a node, as the server says it (`GET /v1/plugins`). */

export type AgentCapability =
  | 'canvas:read'
  | 'canvas:create'
  | 'canvas:connect'
  | 'canvas:group'
  | 'canvas:modify'
  | 'storage:upload'
  | 'storage:download'
  | 'sandbox:persistent';

export type AgentService = 'ai' | 'e2b' | 'theatre-sandbox' | 'render' | 'storage' | 'external-api';

/** What goes through a handle; `media` is a picture, a video or a sound. */
export type HandleType = 'text' | 'image' | 'video' | 'audio' | 'media' | 'json' | 'any';

export type Phase = 'idle' | 'question' | 'plan' | 'executing' | 'preview' | 'complete' | 'error';

export interface PluginHandle {
  id: string;
  name: string;
  type: HandleType;
  required?: boolean;
  optional?: boolean;
  multiple?: boolean;
}

export interface PluginHandles {
  inputs: PluginHandle[];
  outputs: PluginHandle[];
}

/** What any node of a canvas says of itself; without handles no edge begins or ends at it. */
export interface PluginBase {
  id: string;
  name: string;
  description: string;
  icon: string;
  handles?: PluginHandles | null;
}

export interface PhaseDefinition {
  id: Phase;
  label: string;
  initial?: boolean;
  /** Ends the work unless somebody asks for more. */
  terminal?: boolean;
  skippable?: boolean;
  requiresApproval?: boolean;
  showProgress?: boolean;
}

/** What a sandbox may use: processors, and memory as a number with its unit; what is left out, its machine decides. */
export interface SandboxResources {
  cpu?: number | null;
  memory?: string | null;
}

/** Times in seconds. */
export interface PersistentSandbox {
  type: 'theatre' | 'code' | 'e2b-browser';
  template: string;
  timeout: number;
  checkpointInterval: number;
  idleTimeout: number;
  resources?: SandboxResources | null;
}

/** Something to choose before the work begins; `id` is its place in the body of `POST /v1/sessions`. */
export interface PluginSetting {
  id: string;
  name: string;
  type: 'number' | 'choice';
  unit?: string | null;
  minimum?: number | null;
  maximum?: number | null;
  options?: (string | number)[];
  default?: string | number | null;
}

export interface PluginAuthor {
  type: 'official' | 'community';
  name: string;
  verified: boolean;
}

/** Pixels of the canvas. */
export interface NodeSize {
  width: number;
  height: number | 'auto';
}

export interface NodeRendering {
  mode: 'node' | 'modal';
  component: string;
  defaultSize?: NodeSize | null;
  resizable?: boolean;
  collapsible?: boolean;
}

/** The window of a plugin that is shown in one. */
export interface ModalConfig {
  size: 'small' | 'medium' | 'large' | 'fullscreen';
  title: string;
}

export interface AgentPlugin extends PluginBase {
  category: 'generation' | 'analysis' | 'transform';
  type: 'agent';
  version: string;
  author: PluginAuthor;
  visibility: 'public' | 'private';
  rendering: NodeRendering;
  modalConfig?: ModalConfig | null;
  capabilities: AgentCapability[];
  services: AgentService[];
  sandboxConfig?: PersistentSandbox | null;
  phases?: PhaseDefinition[];
  settings?: PluginSetting[];
}

/** An agent that a canvas shows as a node: it says what it takes, gives and lets one choose. */
export interface CanvasAgent extends AgentPlugin {
  handles: PluginHandles;
  settings: PluginSetting[];
}
