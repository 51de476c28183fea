"""Random changes of training images that leave every caption true."""
