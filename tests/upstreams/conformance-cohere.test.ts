/** Cohere only embeds here: its good answers are read by `embeddings.test.ts`. */
import { conformErrors } from '../support/upstream-conformance.ts';

conformErrors('cohere');
