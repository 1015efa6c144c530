import type { Usage } from '../../core/usage.ts';
import type { ReplyFacts, UpstreamFailure } from '../dialect.ts';

/** What the meter and the log need to know about an answer, noted while it comes. */
export class NotedFacts implements ReplyFacts {
  usage: Usage | undefined = undefined;
  isEstimate = false;
  finishReason: string | undefined = undefined;
  outputCharacters = 0;
  failure: UpstreamFailure | undefined = undefined;
}
