// Every colour emoji. Import it where text comes from outside the project's files; the bundle grows by some 13 MB, because
// both formats of one file go with it.
import '@fontsource/noto-color-emoji/emoji.css';
