// The animation's length, frame rate and size, and the Theatre project whose keyframes are in state.json.
import { getProject } from '@theatre/core';
import state from './state.json';

export const SEQUENCE_TIMINGS = { duration: __DURATION__, fps: __FPS__, width: __WIDTH__, height: __HEIGHT__ };

export const project = getProject('koda', { state });
export const sheet = project.sheet('Main');
export const sequence = sheet.sequence;
