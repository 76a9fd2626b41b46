// The bundled fonts. Every stack ends in the CJK and emoji families, of which a build carries what the text needs.
import '@fontsource-variable/fraunces/wght.css';
import '@fontsource-variable/inter/wght.css';
import '@fontsource-variable/inter/wght-italic.css';
import '@fontsource-variable/jetbrains-mono/wght.css';
import '@fontsource-variable/playfair-display/wght.css';
import '@fontsource-variable/playfair-display/wght-italic.css';
import '@fontsource-variable/sora/wght.css';
import '@fontsource-variable/space-grotesk/wght.css';
import 'virtual:koda-fonts.css';

const FALLBACK = "'Noto Color Emoji', 'Noto Sans JP Variable', 'Noto Sans KR Variable', 'Noto Sans SC Variable'";

/** Font stacks for `fontFamily`; CSS has them as --font-sans, --font-display and so on (page.css). */
export const FONT = {
  /** Body text and labels. */
  sans: `'Inter Variable', ${FALLBACK}, sans-serif`,
  /** Titles: geometric and calm. */
  display: `'Sora Variable', 'Inter Variable', ${FALLBACK}, sans-serif`,
  /** Titles: technical. */
  grotesk: `'Space Grotesk Variable', 'Inter Variable', ${FALLBACK}, sans-serif`,
  /** Titles: cinematic, high contrast. */
  serif: `'Playfair Display Variable', 'Fraunces Variable', ${FALLBACK}, serif`,
  /** Titles: warm and soft. */
  soft: `'Fraunces Variable', 'Playfair Display Variable', ${FALLBACK}, serif`,
  /** Code and figures. */
  mono: `'JetBrains Mono Variable', 'Inter Variable', ${FALLBACK}, monospace`,
} as const;

export type FontName = keyof typeof FONT;

for (const [name, stack] of Object.entries(FONT)) document.documentElement.style.setProperty(`--font-${name}`, stack);
