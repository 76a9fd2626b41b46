// Every face of Noto Sans JP, SC and KR. Import it where text comes from outside the project's files (a build finds the
// faces for the text in them by itself); the bundle grows by some 14 MB.
import '@fontsource-variable/noto-sans-jp';
import '@fontsource-variable/noto-sans-kr';
import '@fontsource-variable/noto-sans-sc';
