// 3D text in bundled fonts: what '@react-three/drei' exports as Text, without the fonts that it would fetch from a CDN.
//
// Latin text is drawn by troika from the bundled woff files. Text in other scripts or with emoji is drawn by the browser
// into a texture, with the same stacks as DOM text, because troika would download a font for it.
import { Text as TroikaText } from '@react-three/drei';
import interRegular from '@fontsource/inter/files/inter-latin-400-normal.woff?url';
import interBold from '@fontsource/inter/files/inter-latin-700-normal.woff?url';
import soraBold from '@fontsource/sora/files/sora-latin-700-normal.woff?url';
import { Children, useCallback, useLayoutEffect, useRef, type ComponentProps, type ReactNode } from 'react';
import { configureTextBuilder } from 'troika-three-text';
import { pending } from './pending';
import { TextPlane, type TextPlaneProps } from './TextPlane';

type TextProps = ComponentProps<typeof TroikaText>;

// no worker, whose requests a renderer may not see; the second address is never asked, as only covered text gets here
configureTextBuilder({
  useWorker: false,
  defaultFontURL: new URL(interRegular, document.baseURI).href,
  unicodeFontsURL: new URL('fonts', document.baseURI).href,
});

const LATIN = /^[\u0000-\u00ff\u0131\u0152\u0153\u02c6\u02da\u02dc\u2000-\u206f\u20ac\u2122\u2212\u2215]*$/;

const FONTS: Record<string, string> = {
  inter: interRegular,
  sans: interRegular,
  bold: interBold,
  display: soraBold,
  sora: soraBold,
};

/** A bundled face for what `font` names; an own file under public/ is taken as it is. */
function fontUrl(font: string | undefined, weight: TextProps['fontWeight']): string {
  if (font && /[/.]/.test(font)) return font;
  const named = font ? FONTS[font.toLowerCase()] : undefined;
  if (named) return named;
  return weight === 'bold' || Number(weight) >= 600 ? interBold : interRegular;
}

function textOf(children: ReactNode): string {
  return Children.toArray(children)
    .filter((child) => typeof child === 'string' || typeof child === 'number')
    .join('');
}

/** The props of drei's Text. `font` is "inter", "bold", "display" or the address of an own woff or ttf file. */
export function Text({ font, children, onSync, ...props }: TextProps): ReactNode {
  const text = textOf(children);
  const covered = LATIN.test(text);
  const key = [text, font, props.fontSize, props.maxWidth, props.fontWeight].join('|');
  const laidOutKey = useRef('');
  const release = useRef<(() => void) | undefined>(undefined);
  const laidOut = useCallback<NonNullable<TextProps['onSync']>>(
    (mesh) => {
      laidOutKey.current = key;
      release.current?.();
      release.current = undefined;
      onSync?.(mesh);
    },
    [key, onSync],
  );
  useLayoutEffect(() => {
    if (!covered || laidOutKey.current === key) return undefined;
    release.current ??= pending.hold(`3D text "${text.slice(0, 40)}"`);
    return () => {
      release.current?.();
      release.current = undefined;
    };
  }, [covered, key, text]);
  if (!covered) return <TextPlane {...(props as TextPlaneProps)} text={text} />;
  return (
    <TroikaText {...props} font={fontUrl(font, props.fontWeight)} onSync={laidOut}>
      {children}
    </TroikaText>
  );
}
