import { setUpRuntime } from './cli/own-command.ts';
import { environment } from './config/environment.ts';

/** Entry point of the `tollgate` command. */
const args = process.argv.slice(2);
setUpRuntime(args, environment);
// Imported late, because `setUpRuntime` may restart the program. Then all this would load twice.
const { runCommand } = await import('./cli/dispatch.ts');
const { topics } = await import('./cli/topics.ts');
const { commandEnvironment } = await import('./cli/command-environment.ts');
process.exitCode = await runCommand(args, topics, commandEnvironment);
// Exit explicitly, because open client connections would keep the process alive.
process.exit();
