/** Opens a database as soon as it reads a byte, so that many processes can start at once. */
import { openStore } from '../../src/store/open.ts';

process.stdout.write('ready\n');
for await (const _ of Bun.stdin.stream()) break;
const store = await openStore(process.argv[2] ?? '');
await store.directory.version();
await store.database.close();
process.exit(0);
