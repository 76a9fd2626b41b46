/** One connection for all that the page shows. */
import { Stream } from '../../node/src/stream';

export const stream = new Stream('', () => ({}), 'same-origin', ['picture_taken']);
