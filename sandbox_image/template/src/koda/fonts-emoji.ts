// Every colour emoji. Import it where text comes from outside the project's files; the bundle grows by some 4 MB.
import '@fontsource/noto-color-emoji';
