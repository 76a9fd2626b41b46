/// <reference types="vite/client" />

declare module 'virtual:koda-fonts.css';

declare module 'troika-three-text' {
  export function configureTextBuilder(config: {
    useWorker?: boolean;
    defaultFontURL?: string;
    unicodeFontsURL?: string;
  }): void;
}

declare module 'scheduler' {
  export const unstable_IdlePriority: number;
  export function unstable_scheduleCallback(priority: number, callback: () => void): unknown;
}
