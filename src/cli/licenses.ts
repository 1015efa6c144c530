import notices from '../../THIRD_PARTY_NOTICES.md' with { type: 'text' };
import { singleCommandTopic } from './command.ts';

/** For the executable, which contains the licensed software but no file with its licenses. */
export const licenses = singleCommandTopic('licenses', 'Print the licenses of included software', {
  summary: 'Print the licenses of the software that Tollgate includes',
  options: {},
  run: async ({ out }) => out(notices.trimEnd()),
});
