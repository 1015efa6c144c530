import type { UploadTray } from '../../core/upload.ts';
import { readImagesRequest } from '../../dialects/openai/media/images-request.ts';
import { ImagesErrand } from '../../operations/images.ts';
import { type Posted, readJson } from '../body/body.ts';
import { imagesDocs } from '../openapi/images.ts';
import { type Route, routesFor } from '../routes.ts';
import { readEdit } from './image-form.ts';
import { callModel, callModelWithFiles, type UploadCallParts } from './model-call.ts';

const routing = routesFor({ access: 'routing', scope: 'images', errorShape: 'images' });

export function imagesRoutes(parts: UploadCallParts): Route[] {
  return [
    routing.post('/v1/images/generations', imagesDocs.generate, (exchange, caller) => {
      const read = async (posted: Posted) => {
        const { value } = await readJson(posted, parts.bodyBytesMax);
        return new ImagesErrand(readImagesRequest(value));
      };
      return callModel(exchange, caller, 'images', read, parts);
    }),
    routing.post('/v1/images/edits', imagesDocs.edit, (exchange, caller) => {
      const read = async (posted: Posted, tray: UploadTray) => {
        const { request, images, mask } = await readEdit(posted, tray);
        return new ImagesErrand(request, images, mask);
      };
      return callModelWithFiles(exchange, caller, 'images', read, parts);
    }),
  ];
}
