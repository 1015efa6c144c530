/** Cohere only embeds here: its good answers are read by `embeddings.test.ts`. */
import { testRecordedErrors } from '../support/upstream-conformance.ts';

testRecordedErrors('cohere');
