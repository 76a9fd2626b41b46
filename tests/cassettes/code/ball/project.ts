import { getProject } from '@theatre/core';
import state from './state.json';

export const SEQUENCE_TIMINGS = { duration: 1.6, fps: 30, width: 1280, height: 720 };

export const project = getProject('koda', { state });
export const sheet = project.sheet('Main');
export const sequence = sheet.sequence;
