/// <reference types="vite/client" />

declare module 'virtual:koda-fonts.css';

declare module 'troika-three-text' {
  export function configureTextBuilder(config: {
    useWorker?: boolean;
    defaultFontURL?: string;
    unicodeFontsURL?: string;
  }): void;
}
