// The animation's length, frame rate and size, and the Theatre project whose keyframes are in state.json.
import { getProject } from '@theatre/core';
import state from './state.json';

export const SEQUENCE_TIMINGS = { duration: 5, fps: 60, width: 1920, height: 1080 };

export const project = getProject('koda', { state });
export const sheet = project.sheet('Main');
export const sequence = sheet.sequence;
