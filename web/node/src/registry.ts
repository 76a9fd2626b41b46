/** Which nodes a canvas knows: what they are, what shows them, and what comes out of them. */
import type { ComponentType } from 'react';
import type { Koda } from './koda';
import type { AgentPlugin, PluginBase } from './plugin';
import type { Value } from './values';

/** What a node of a canvas is kept as; the rest is its plugin's own, and goes into JSON. */
export interface NodeData extends Record<string, unknown> {
  /** Which plugin it is of. */
  plugin: string;
}

/** What the component of a plugin gets: its node, and how it changes what is kept. */
export interface NodeParts {
  id: string;
  data: NodeData;
  selected?: boolean;
}

export interface Entry {
  plugin: PluginBase | AgentPlugin;
  /** Shows it as a node of React Flow. */
  component: ComponentType<NodeParts>;
  /** What it gives at a handle; undefined as long as that is nothing. Called often. */
  output?: (handle: string, data: NodeData, koda: Koda) => Value | undefined;
  /** The session that its outputs come from, which is followed for whoever is connected. */
  sessionId?: (data: NodeData) => string | undefined;
  /** Tells when something other than its data or its session changes what it gives; returns what ends that. */
  watch?: (told: () => void) => () => void;
  /** The id of the file behind an output, where it is uploaded already and no session has it; it goes along as it is. */
  stored?: (handle: string, data: NodeData, koda: Koda) => Promise<string | undefined>;
  /** The file behind an output, as it can be uploaded. */
  file?: (handle: string, data: NodeData, koda: Koda) => Promise<File>;
}

export class Registry {
  private readonly entries = new Map<string, Entry>();

  /** Make a plugin known. Throws where its id is taken, or two of its handles on one side have the same. */
  register(entry: Entry): void {
    const { id, handles } = entry.plugin;
    if (this.entries.has(id)) throw new Error(`a plugin ${JSON.stringify(id)} is registered already`);
    for (const side of [handles?.inputs ?? [], handles?.outputs ?? []]) {
      const ids = side.map((each) => each.id);
      if (new Set(ids).size < ids.length) throw new Error(`handles of ${JSON.stringify(id)} have the same id: ${ids.join(', ')}`);
    }
    this.entries.set(id, entry);
  }

  /** What is known of a plugin; undefined for one that is not, whose nodes the fallback shows. */
  get(id: string): Entry | undefined {
    return this.entries.get(id);
  }

  list(): Entry[] {
    return [...this.entries.values()];
  }
}

/** The nodes of this page. */
export const registry = new Registry();
