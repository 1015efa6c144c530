/**
 * `bun tests/support/fake-upstream/run.ts --port N [--lean] [--with-parent]` prints the fake
 * upstream's address and runs it until it is killed. See `control.ts` for its control paths.
 */

import { parseArgs } from 'node:util';
import { startFakeUpstream } from './server.ts';

const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    lean: { type: 'boolean', default: false },
    'with-parent': { type: 'boolean', default: false },
  },
});

const upstream = startFakeUpstream({ port: Number(values.port), lean: values.lean });
process.stdout.write(`${upstream.url}\n`);

if (values['with-parent']) {
  process.stdin.resume();
  process.stdin.on('end', () => process.exit(0));
}
