/** Parts of the page that come when they are needed: how long they are waited for, and what is known of one that does not come. */
import { build } from './build';
import { reach } from './reach';

/** A part that the server does not give although it is there: since it has another build of the page by now, or for no known reason. */
export class NotCome extends Error {
  constructor(
    readonly isOfBefore: boolean,
    cause: unknown,
  ) {
    super('a part of the page did not come', { cause });
  }
}

interface Server {
  reach: Pick<typeof reach, 'now' | 'check' | 'back'>;
  build: Pick<typeof build, 'look'>;
}

/** Have a part come, however long the server is away. One that is there is asked twice, and then looked at. */
export async function patiently<Part>(load: () => Promise<Part>, server: Server = { reach, build }): Promise<Part> {
  for (let wasThere = false; ; ) {
    try {
      return await load();
    } catch (problem) {
      await server.reach.check();
      const isThere = server.reach.now === 'there';
      if (isThere && wasThere) throw new NotCome(await server.build.look(), problem);
      if (!isThere) await server.reach.back();
      wasThere = isThere;
    }
  }
}
