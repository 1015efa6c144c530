/** Recorded errors from Cohere. Its embeddings are tested in `embeddings.test.ts`. */
import { testRecordedErrors } from '../support/upstream-conformance.ts';

testRecordedErrors('cohere');
